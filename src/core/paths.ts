/** Where everything lives below the state root (storage chapter). Pure string building; 0700 folders, 0600 files. */

export interface StatePaths {
  root: string;
  /** The user's configuration. */
  config: string;
  userDb: string;
  socket: string;
  pid: string;
  lock: string;
  log: string;
  registrationCredential: string;
  presenterCredential: string;
  /** Read by `kk presenter recover` alone. */
  adminCredential: string;
  /** One folder for each run of a harness's quick proofs, while it lasts. */
  proofs: string;
}

export function statePaths(root: string): StatePaths {
  return {
    root,
    config: `${root}/config.toml`,
    userDb: `${root}/state.db`,
    socket: `${root}/kkd.sock`,
    pid: `${root}/kkd.pid`,
    lock: `${root}/kkd.lock`,
    log: `${root}/kkd.log`,
    registrationCredential: `${root}/registration-cred`,
    presenterCredential: `${root}/presenter-cred`,
    adminCredential: `${root}/admin-cred`,
    proofs: `${root}/proofs`,
  };
}

export interface RepoPaths {
  root: string;
  /** Configuration of this repository on this machine. */
  config: string;
  db: string;
  /** Neutral jj folder: mutations run from it, nobody's working copy is snapshotted. */
  neutral: string;
  credentials: string;
  errors: string;
  recovery: string;
}

export function repoPaths(stateRoot: string, repoId: string): RepoPaths {
  const root = `${stateRoot}/repos/${repoId}`;
  return {
    root,
    config: `${root}/config.toml`,
    db: `${root}/state.db`,
    neutral: `${root}/jj`,
    credentials: `${root}/credentials`,
    errors: `${root}/errors`,
    recovery: `${root}/recovery`,
  };
}

export interface ThreadPaths {
  /** `harness/<thread>/`: generated settings, hook launcher, barrier marker, spool. */
  harness: string;
  hook: string;
  barrier: string;
  /** Calls that passed while the daemon could not be asked: `<incarnation>.<pid>`. */
  passed: string;
  /** Events the daemon could not take at once, drained before any decision: `<incarnation>.<ns>.<pid>`. */
  spool: string;
  /** What the person typed while an intent was owed to the agent, 0600, for the input of a replacement. */
  typed: string;
  /** The same as plain text for the replacement to read, where it is too long for an input. */
  typedText: string;
  credential: string;
  errorLog: string;
  /** `setup/<thread>/`: what set-up recipes leave behind, kept until the thread is gone. */
  setup: string;
  setupLog: string;
}

export function threadPaths(stateRoot: string, repoId: string, threadId: string): ThreadPaths {
  const repo = repoPaths(stateRoot, repoId);
  const harness = `${repo.root}/harness/${threadId}`;
  return {
    harness,
    hook: `${harness}/hook`,
    barrier: `${harness}/barrier`,
    passed: `${harness}/passed`,
    spool: `${harness}/spool`,
    typed: `${harness}/typed.json`,
    typedText: `${harness}/typed-meanwhile.txt`,
    credential: `${repo.credentials}/${threadId}`,
    errorLog: `${repo.errors}/${threadId}.log`,
    setup: `${repo.root}/setup/${threadId}`,
    setupLog: `${repo.root}/setup/${threadId}/setup.log`,
  };
}

export function recoveryBundle(stateRoot: string, repoId: string, intentId: string): string {
  return `${repoPaths(stateRoot, repoId).recovery}/${intentId}`;
}

/** Configuration that comes with the repository: the only file of kiki's that may lie in one. */
export function sharedConfig(repoRoot: string): string {
  return `${repoRoot}/.kiki.toml`;
}
