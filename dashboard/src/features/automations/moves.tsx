import { Button } from '@mantine/core';
import { t } from '../../text';
import { MOVES, type Move, type Standing, targetOf } from './arrangement';
import type { Step } from './step';

const SIGNS: Record<Move, string> = { up: '↑', down: '↓', into: '↳', out: '↰', previousWay: '←', nextWay: '→' };

/** The keys that move a step, together with Alt: the first move that leads somewhere counts. */
export const KEYS: Record<string, Move[]> = { ArrowUp: ['up'], ArrowDown: ['down'], ArrowRight: ['into', 'nextWay'], ArrowLeft: ['previousWay', 'out'] };

interface Props {
  steps: readonly Step[];
  standing: Standing;
  onMove: (move: Move) => void;
}

/** Where a step can be taken. What leads nowhere keeps the focus, so that whoever moves by keyboard is not thrown out. */
export function Moves({ steps, standing, onMove }: Props) {
  return MOVES.map((move) => {
    const leads = targetOf(steps, standing, move) !== null;
    return (
      <Button key={move} size="compact-xs" variant="default" data-disabled={leads ? undefined : true} aria-disabled={!leads} aria-label={t.canvas.moves[move]} title={t.canvas.moves[move]} onClick={() => onMove(move)}>
        {SIGNS[move]}
      </Button>
    );
  });
}
