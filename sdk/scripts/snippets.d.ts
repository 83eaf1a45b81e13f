// What the script makes, where a snippet imports nothing.
import type {} from '@rekindle/browser';
