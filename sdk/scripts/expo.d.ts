/** What the examples see of `expo` itself, which is a whole build system and not installed for looking at types. */
declare module 'expo' {
  export interface PermissionResponse {
    status: string;
    granted: boolean;
    canAskAgain: boolean;
    expires: 'never' | number;
  }
}
