import AsyncStorage from '@react-native-async-storage/async-storage';
import { type PushBridge, rekindle } from '@rekindle/react-native';
import * as Notifications from 'expo-notifications';

/** How the SDK asks expo-notifications. */
const push: PushBridge = {
  requestPermission: async () => (await Notifications.requestPermissionsAsync()).granted,
  getToken: async () => (await Notifications.getDevicePushTokenAsync()).data as string,
  onToken(run) {
    const listener = Notifications.addPushTokenListener(({ data }) => run(data as string));
    return () => listener.remove();
  },
  onReceived(run) {
    const listener = Notifications.addNotificationReceivedListener(run);
    return () => listener.remove();
  },
  onOpened(run) {
    const listener = Notifications.addNotificationResponseReceivedListener(run);
    return () => listener.remove();
  },
};

rekindle.init({
  projectId: process.env.EXPO_PUBLIC_REKINDLE_PROJECT_ID ?? '',
  apiKey: process.env.EXPO_PUBLIC_REKINDLE_PUBLIC_KEY ?? '',
  apiUrl: process.env.EXPO_PUBLIC_REKINDLE_URL,
  storage: AsyncStorage,
  push,
});

export const screens = rekindle.createNavigatorObserver();
export { rekindle };
