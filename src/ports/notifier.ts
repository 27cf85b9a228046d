/**
 * The way a notification takes to a person outside kiki. Whether an event is shown at all, and that it is shown once,
 * is decided and recorded before (`attention`); a notifier only shows, and may fail.
 */

export interface Notice {
  /** Which event it is about; for logs, never shown. */
  eventId: string;
  /** One line each, at most 200 characters. Text, never markup: a transport escapes what it would interpret. */
  title: string;
  body: string;
  /** Stays until it is seen, where the transport can do that. */
  loud: boolean;
}

export type Shown =
  | { shown: true }
  /** `reason` is one line for the log. The caller does not try again: the state is still on the screen. */
  | { shown: false; reason: string };

export interface Notifier {
  readonly transport: "notify-send" | "osascript" | "tmux" | "off";
  /**
   * Shows one notice. Never rejects, and does not wait for the person. Resolves with `shown: false` as soon as `signal`
   * fires: a desktop that does not answer must not hold anything up. Every call shows one more notice.
   */
  show(notice: Notice, signal: AbortSignal): Promise<Shown>;
}
