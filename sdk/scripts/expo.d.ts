/** Types of `expo` for the examples. `expo` itself is a build system and too large to install for its types. */
declare module 'expo' {
  export interface PermissionResponse {
    status: string;
    granted: boolean;
    canAskAgain: boolean;
    expires: 'never' | number;
  }
}
