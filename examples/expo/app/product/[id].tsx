import { useLocalSearchParams } from 'expo-router';
import { useEffect } from 'react';
import { Button, Text, View } from 'react-native';
import { rekindle } from '../../engagement';

export default function Product() {
  const { id } = useLocalSearchParams<{ id: string }>();
  useEffect(() => rekindle.productViewed({ productId: id }), [id]);
  return (
    <View>
      <Text>{id}</Text>
      <Button title="Into the cart" onPress={() => rekindle.addedToCart({ productId: id, quantity: 1 })} />
    </View>
  );
}
