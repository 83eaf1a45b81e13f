import { Stack, useNavigationContainerRef } from 'expo-router';
import { useEffect } from 'react';
import { screens } from '../engagement';

export default function Layout() {
  const ref = useNavigationContainerRef();
  useEffect(() => screens.observe(ref), [ref]);
  return <Stack />;
}
