import type { FromSchema, FromSchemaDefaultOptions, FromSchemaOptions, JSONSchema } from "json-schema-to-ts";

type NamedKeys<T> = keyof { [K in keyof T as string extends K ? never : K]: true };

/** Readonly all the way down; an open object shows only the fields that its schema names. */
type Strict<T> = T extends readonly (infer Item)[]
  ? readonly Strict<Item>[]
  : T extends object
    ? [NamedKeys<T>] extends [never]
      ? { readonly [K in keyof T]: Strict<T[K]> }
      : { readonly [K in keyof T as string extends K ? never : K]: Strict<T[K]> }
    : T;

/** The TypeScript type of what a schema accepts. Fields with a default are there: they have been filled in. */
export type SchemaType<S extends JSONSchema, Options extends FromSchemaOptions = FromSchemaDefaultOptions> = Strict<
  FromSchema<S, Options>
>;
