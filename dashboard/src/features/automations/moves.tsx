import { Button } from '@mantine/core';
import { t } from '../../text';
import { MOVES, type Move, type Standing, targetOf } from './arrangement';
import type { Step } from './step';

const SIGNS: Record<Move, string> = { up: '↑', down: '↓', into: '↳', out: '↰', previousWay: '←', nextWay: '→' };

/** The keys that move a step, together with Alt: the first move that leads somewhere counts. */
export const KEYS: Record<string, Move[]> = {
  ArrowUp: ['up'],
  ArrowDown: ['down'],
  ArrowRight: ['into', 'nextWay'],
  ArrowLeft: ['previousWay', 'out'],
};

/** A button that does nothing at an end, and can be at the focus all the same: whoever has moved a step there is still at it. */
export function reaching(atEnd: boolean) {
  return { 'aria-disabled': atEnd, 'data-disabled': atEnd || undefined };
}

interface Props {
  steps: readonly Step[];
  standing: Standing;
  onMove: (move: Move) => void;
}

/** Where a step can be taken. */
export function Moves({ steps, standing, onMove }: Props) {
  return MOVES.map((move) => (
    <Button
      key={move}
      size="compact-xs"
      variant="default"
      {...reaching(targetOf(steps, standing, move) === null)}
      aria-label={t.canvas.moves[move]}
      title={t.canvas.moves[move]}
      onClick={() => onMove(move)}
    >
      {SIGNS[move]}
    </Button>
  ));
}
