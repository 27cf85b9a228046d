/** The error a promise rejects with; throws when it does not. (bun's `expect().rejects` is typed as no promise.) */
export async function failureOf(work: Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await work;
  } catch (error) {
    return error;
  }
  throw new Error(`expected a failure, got ${JSON.stringify(value)}`);
}
