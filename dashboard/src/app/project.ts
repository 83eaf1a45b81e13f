import { useParams } from '@tanstack/react-router';
import { useSession } from '../session/use-session';

/** The project on the screen, and what its viewer is in it. */
export function useProject(): { projectId: string; isAdmin: boolean } {
  const { projectId } = useParams({ from: '/p/$projectId' });
  const isAdmin = useSession().projects.find((each) => each.id === projectId)?.role === 'ADMIN';
  return { projectId, isAdmin };
}
