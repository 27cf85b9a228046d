/** Kinds of configuration values: the check, and the words for what it expects. */
import { z } from "zod";

export interface ValueType<T> {
  schema: z.ZodType<T>;
  /** Completes "… must be": shown in errors and in docs/config.md. */
  expected: string;
  /** Words a completion can offer; empty where the value is free. */
  choices: readonly string[];
  /** In the environment, taken as it is; everything else is written as in TOML. */
  text: boolean;
}

/** Longer texts are no setting; they would be copied into every plan and journal. */
const MAX_TEXT_LENGTH = 4_096;
const MAX_LIST_LENGTH = 1_000;

const zText = z
  .string()
  .max(MAX_TEXT_LENGTH)
  .refine((value) => !value.includes("\0"));

export function truth(): ValueType<boolean> {
  return {
    schema: z.boolean(),
    expected: "true or false",
    choices: ["true", "false"],
    text: false,
  };
}

/** A whole number in `unit`, both bounds included. */
export function whole(min: number, max: number, unit: string): ValueType<number> {
  return {
    schema: z.number().int().min(min).max(max),
    expected: `a whole number of ${unit} from ${min} to ${max}`,
    choices: [],
    text: false,
  };
}

export function oneOf<const T extends string>(...choices: readonly T[]): ValueType<T> {
  const quoted = choices.map((choice) => JSON.stringify(choice));
  const last = quoted.at(-1) ?? "";
  return {
    schema: z.enum(choices as readonly [T, ...T[]]),
    expected: quoted.length > 1 ? `${quoted.slice(0, -1).join(", ")} or ${last}` : last,
    choices,
    text: true,
  };
}

/** One of the words, or `prefix` and the name of an environment variable. */
export function oneOfOrVariable(prefix: string, ...choices: readonly string[]): ValueType<string> {
  const quoted = choices.map((choice) => JSON.stringify(choice));
  return {
    schema: zText.refine(
      (value) =>
        choices.includes(value) ||
        (value.startsWith(prefix) && /^[A-Za-z_][A-Za-z0-9_]*$/.test(value.slice(prefix.length))),
    ),
    expected: `${quoted.join(", ")} or ${JSON.stringify(`${prefix}NAME`)}`,
    choices,
    text: true,
  };
}

export function text(): ValueType<string> {
  return { schema: zText, expected: "a text", choices: [], text: true };
}

/** An absolute path; `~/` at its start is the person's home. */
export function path(): ValueType<string> {
  return {
    schema: zText.refine((value) => /^(?:\/|~\/)/.test(value)),
    expected: "an absolute path, or one that begins with ~/",
    choices: [],
    text: true,
  };
}

export function textList(): ValueType<string[]> {
  return {
    schema: z.array(zText).max(MAX_LIST_LENGTH),
    expected: "a list of texts",
    choices: [],
    text: false,
  };
}
