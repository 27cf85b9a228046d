/**
 * A consequential call: plan, a person's yes, and exactly that. The daemon may end and be started again at any of these
 * moments. Planning again changes nothing, and a call whose answer was lost finds what it had begun.
 */
import { KikiError } from "../core/errors.ts";
import type { Client } from "../rpc/client.ts";
import type { Input, MethodName, Output } from "../rpc/contract/methods.ts";
import { approve } from "./approve.ts";
import { connect } from "./connect.ts";
import { note } from "./out.ts";

/** A plan reads the repository; a slow jj may take its time. */
const TIMEOUT_MS = 120_000;
/** Plans shown in a row before a repository that never stands still is reported. */
const MAX_PLANS = 5;
/** A daemon that keeps dying is reported. */
const MAX_RECONNECTS = 5;

type Approved = "NewThread" | "ApplyRepair";

/** What is done is exactly what was agreed to; a plan that changed meanwhile is shown and asked about anew. */
export async function approvedCall<M extends Approved>(
  client: Client,
  method: M,
  request: Omit<Input<M>, "digest">,
  show: { json: boolean; changed: string },
): Promise<Output<M>> {
  for (let round = 1; ; round += 1) {
    // Of the right arguments for its method: the two are tied together by M.
    const begin = { method, args: request, clientPid: process.pid } as unknown;
    const plan = await callAgain(client, "BeginApproval", begin as Input<"BeginApproval">);
    approve(plan, show.json);
    try {
      return await callAgain(client, method, { ...request, digest: plan.digest } as Input<M>);
    } catch (error) {
      const changed = error instanceof KikiError && error.code === "plan-changed";
      if (!changed || round === MAX_PLANS) throw error;
      note(show.changed);
    }
  }
}

async function callAgain<M extends MethodName>(
  client: Client,
  method: M,
  input: Input<M>,
): Promise<Output<M>> {
  let at = client;
  for (let reconnects = 0; ; reconnects += 1) {
    try {
      return await at.call(method, input, { timeoutMs: TIMEOUT_MS });
    } catch (error) {
      // A daemon that is there and slow is not asked twice.
      const away = error instanceof KikiError && error.code === "daemon-unreachable";
      if (!away || reconnects >= MAX_RECONNECTS) throw error;
      at = (await connect()).client;
    }
  }
}
