import { useParams } from '@tanstack/react-router';
import { useSession } from '../session/use-session';

/** The current project, and whether the signed-in account is an admin of it. */
export function useProject(): { projectId: string; isAdmin: boolean } {
  const { projectId } = useParams({ from: '/p/$projectId' });
  const isAdmin = useSession().projects.find((each) => each.id === projectId)?.role === 'ADMIN';
  return { projectId, isAdmin };
}
