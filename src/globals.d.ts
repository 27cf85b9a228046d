// Replaced by text at build time (scripts/build.ts); absent when the sources run directly.
declare const KIKI_VERSION: string;
declare const KIKI_BUILD: string;
