import { Link } from 'expo-router';
import { useEffect, useState } from 'react';
import { Button, Text, View } from 'react-native';
import { rekindle } from '../engagement';

export default function Home() {
  const [unread, setUnread] = useState(0);
  useEffect(() => rekindle.followInbox((change) => change.type === 'unread' && setUnread(change.unread)), []);
  return (
    <View>
      <Text>Shop{unread ? `, ${unread} new messages` : ''}</Text>
      <Link href="/product/red-shoes">Red shoes</Link>
      <Button title="Sign in" onPress={() => rekindle.identify('ada', { name: 'Ada' })} />
      <Button title="Notify me" onPress={() => void rekindle.push.requestPermission()} />
      <Button title="Sign out" onPress={() => void rekindle.reset()} />
    </View>
  );
}
