/** Values in words: as TOML writes them, and as an error quotes them. */
import type { TomlDate } from "smol-toml";

/** What a person wrote, short enough for one line of an error. */
export function shown(value: unknown): string {
  const written = tomlText(value);
  const characters = Array.from(written);
  return characters.length <= 60 ? written : `${characters.slice(0, 59).join("")}…`;
}

/** A value as TOML writes it. */
export function tomlText(value: unknown): string {
  if (value === null || value === undefined) return "(none)";
  if (Array.isArray(value)) return `[${value.map(tomlText).join(", ")}]`;
  // smol-toml's dates write themselves as TOML does.
  if (typeof value === "object" && "toISOString" in value) return (value as TomlDate).toISOString();
  if (typeof value === "object") {
    const pairs = Object.entries(value).map(([key, inner]) => `${key} = ${tomlText(inner)}`);
    return pairs.length === 0 ? "{}" : `{ ${pairs.join(", ")} }`;
  }
  // JSON's escapes are TOML's as well.
  return typeof value === "number" ? String(value) : JSON.stringify(value);
}
