/** Every operation made in a thread's workspace asks where a commit has been some thread's `@` before (cascade/taken.ts). */
export const SQL = `
CREATE INDEX op_workspace_heads_by_commit ON op_workspace_heads(commit_id, workspace_name);
`;
