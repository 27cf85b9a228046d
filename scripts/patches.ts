/**
 * What has to change in two dependencies before they work inside one executable file.
 *
 * Each patch is a pure function from the published source to the bundled one and throws when the
 * source is not the one it was written for: a silent miss would only show on a user's terminal.
 * Written against blessed 0.1.81 and @parcel/watcher 2.6.0.
 */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { BunPlugin } from "bun";

/** Replaces every occurrence; throws unless there are exactly `count`. */
function replaceExactly(source: string, from: string, to: string, count: number): string {
  const parts = source.split(from);
  if (parts.length !== count + 1) {
    throw new Error(
      `patch does not apply: expected ${count} × ${JSON.stringify(from)}, found ${parts.length - 1}`,
    );
  }
  return parts.join(to);
}

// Widgets kiki does not use; they start programs or read files of their own.
const UNUSED_WIDGETS = new Set([
  "ANSIImage",
  "BigText",
  "FileManager",
  "Image",
  "OverlayImage",
  "Terminal",
  "Video",
]);

/** blessed/lib/widget.js loads widgets by a computed name, which a bundler cannot follow. */
export function patchBlessedWidget(source: string): string {
  const list = /widget\.classes = \[([^\]]*)\]/.exec(source)?.[1];
  if (list === undefined || !source.includes("require('./widgets/' + file)")) {
    throw new Error("patch does not apply: blessed/lib/widget.js has another shape");
  }
  const names = [...list.matchAll(/'(\w+)'/g)]
    .map((match) => match[1] ?? "")
    .filter((name) => !UNUSED_WIDGETS.has(name));
  return [
    "var widget = exports;",
    `widget.classes = ${JSON.stringify(names)};`,
    ...names.map((name) => {
      const file = name.toLowerCase();
      return `widget.${name} = widget.${file} = require('./widgets/${file}');`;
    }),
    "widget.aliases = { ListBar: 'Listbar' };",
    "widget.ListBar = widget.listbar = widget.Listbar;",
    "",
  ].join("\n");
}

/**
 * blessed/lib/tput.js reads the system's terminfo, and dies on the 32-bit format that current
 * ncurses installs. The entry it ships for xterm-256color is used for every TERM instead: tmux,
 * the only place the UI runs, speaks it.
 */
export function patchBlessedTput(source: string, terminfo: Uint8Array): string {
  const embedded = Buffer.from(terminfo).toString("base64");
  const patched = replaceExactly(
    source,
    "file = path.normalize(this._prefix(term));\n  data = fs.readFileSync(file);",
    `file = 'embedded:xterm-256color';\n  data = Buffer.from('${embedded}', 'base64');`,
    1,
  );
  // The bundler would write the build machine's folder in place of __dirname.
  return replaceExactly(patched, "__dirname + '/../usr/", "'/nonexistent/", 4);
}

/** The ranges of code points in [low, high] that take two columns, surrogates left out. */
function wideRanges(low: number, high: number): [number, number][] {
  const ranges: [number, number][] = [];
  for (let point = low; point <= high; point++) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    if (Bun.stringWidth(String.fromCodePoint(point)) !== 2) continue;
    const last = ranges.at(-1);
    if (last && last[1] === point - 1) last[1] = point;
    else ranges.push([point, point]);
  }
  return ranges;
}

function unit(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Regex alternatives matching the two-column characters above U+FFFF as surrogate pairs. */
function wideSurrogates(): string {
  const lowByHigh = new Map<string, string>();
  for (const [first, last] of wideRanges(0x10000, 0x1ffff)) {
    for (let point = first; point <= last; point++) {
      const pair = String.fromCodePoint(point);
      const high = unit(pair.charCodeAt(0));
      lowByHigh.set(high, (lowByHigh.get(high) ?? "") + unit(pair.charCodeAt(1)));
    }
  }
  const alternatives = [...lowByHigh].map(([high, low]) => `${high}[${low}]`);
  // Planes 2 and 3 are ideographs throughout.
  return [...alternatives, "[\\ud840-\\ud8bf][\\udc00-\\udfff]"].join("|");
}

/**
 * blessed/lib/unicode.js knows Unicode 6: newer emoji count as one column and push the borders
 * right. Width tables come from the runtime that is being embedded.
 */
export function patchBlessedUnicode(source: string): string {
  for (const needed of ["exports.charWidth = function(str, i)", "exports.combining["]) {
    if (!source.includes(needed)) throw new Error(`patch does not apply: no ${needed}`);
  }
  const wide = wideRanges(0x1100, 0xffff)
    .map(([first, last]) => `${unit(first)}-${unit(last)}`)
    .join("");
  const astral = wideSurrogates();
  return `${source}
;(function () {
  var original = exports.charWidth, cache = new Map();
  exports.charWidth = function (str, i) {
    var point = typeof str !== 'number' ? exports.codePointAt(str, i || 0) : str;
    if (!(point >= 0x300) || exports.combining[point]) return original(point);
    var width = cache.get(point);
    if (width === undefined) {
      cache.set(point, width = Bun.stringWidth(String.fromCodePoint(point)));
    }
    return width;
  };
  exports.chars.wide = /([${wide}])/g;
  exports.chars.swide = /(${astral})/g;
  exports.chars.all = /(${astral}|[${wide}])/g;
})();
`;
}

/** @parcel/watcher/index.js picks its native part by a computed name; name the one file instead. */
export function patchWatcher(source: string, nativeFile: string): string {
  if (!source.includes("let name = `@parcel/watcher-") || !source.includes("createWrapper(")) {
    throw new Error("patch does not apply: @parcel/watcher/index.js has another shape");
  }
  return [
    "const { createWrapper } = require('./wrapper');",
    `module.exports = createWrapper(require(${JSON.stringify(nativeFile)}));`,
    "",
  ].join("\n");
}

/** The bundler plugin applying all of them. `watcherNative` is the .node file for the target. */
export function dependencyPatches(watcherNative: string): BunPlugin {
  return {
    name: "dependency-patches",
    setup(build) {
      const patch = (filter: RegExp, apply: (source: string, path: string) => string): void => {
        build.onLoad({ filter }, ({ path }) => ({
          loader: "js",
          contents: apply(readFileSync(path, "utf8"), path),
        }));
      };
      patch(/[\\/]blessed[\\/]lib[\\/]widget\.js$/, patchBlessedWidget);
      patch(/[\\/]blessed[\\/]lib[\\/]unicode\.js$/, patchBlessedUnicode);
      patch(/[\\/]blessed[\\/]lib[\\/]tput\.js$/, (source, path) =>
        patchBlessedTput(source, readFileSync(join(dirname(path), "../usr/xterm-256color"))),
      );
      patch(/[\\/]@parcel[\\/]watcher[\\/]index\.js$/, (source) =>
        patchWatcher(source, watcherNative),
      );
    },
  };
}
