import { useCallback, useEffect, useRef } from 'react';

/** Tells whether what asks is still on the screen: whoever has left it meanwhile is not led elsewhere by a late answer. */
export function useIsHere(): () => boolean {
  const here = useRef(false);
  useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
    };
  }, []);
  return useCallback(() => here.current, []);
}
