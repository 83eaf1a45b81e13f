/** What Expo puts in the place of each of these when it builds the app. */
declare const process: {
  env: {
    EXPO_PUBLIC_REKINDLE_URL?: string;
    EXPO_PUBLIC_REKINDLE_PROJECT_ID?: string;
    EXPO_PUBLIC_REKINDLE_PUBLIC_KEY?: string;
  };
};
