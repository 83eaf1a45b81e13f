import { serve } from './sw';

serve(self as unknown as Parameters<typeof serve>[0]);
