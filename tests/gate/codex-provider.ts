/** The scripted model as a person would configure a provider of their own: `-c` settings, and no dialogs of permission. */
export function providerSettings(url: string): string[] {
  const provider = "model_providers.scripted";
  return [
    "model_provider=scripted",
    `${provider}.name="scripted"`,
    `${provider}.base_url=${JSON.stringify(url)}`,
    `${provider}.wire_api="responses"`,
    `${provider}.requires_openai_auth=false`,
    `${provider}.supports_websockets=false`,
    'sandbox_mode="danger-full-access"',
    'approval_policy="never"',
    "model_reasoning_effort=high",
  ];
}
