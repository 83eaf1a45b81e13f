import '@xyflow/react/dist/style.css';
import './canvas.css';
import { Button, Group, NativeSelect, Stack, Text, VisuallyHidden, useComputedColorScheme } from '@mantine/core';
import { Controls, type Edge, type NodeChange, Position, ReactFlow, type ReactFlowInstance } from '@xyflow/react';
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react';
import { identityOf } from '../../app/identity';
import { t } from '../../text';
import {
  type Move,
  type Standing,
  type Target,
  canGo,
  everyStep,
  inserted,
  relocated,
  standingOf,
  targetOf,
  without,
  withStep,
} from './arrangement';
import { CanvasContext, type CanvasState, EDGE_TYPES, NODE_TYPES, type PartNode, armOf } from './canvas-parts';
import { FARTHEST, type Part, type Picture, fitted, pictureOf, spotAt } from './layout';
import { KEYS } from './moves';
import { STEP_TYPES, type Step, freshStep } from './step';
import { stepName } from './step-card';
import type { StepNumbers } from './step-numbers';
import { StepPanel } from './step-panel';
import { problemsOf } from './step-problems';

interface Props {
  steps: Step[];
  onChange: (steps: Step[]) => void;
  error: unknown;
  trigger: string;
  numbers: Map<string, StepNumbers>;
  label: string;
}

interface Dragged {
  id: string;
  x: number;
  y: number;
  spot: string | null;
}

const EDGES: Partial<Edge> = {
  type: 'line',
  focusable: false,
  selectable: false,
  ariaLabel: null as never,
  ariaRole: 'presentation',
  domAttributes: { 'aria-roledescription': undefined },
};

function nodesOf({ parts }: Picture, dragged: Dragged | null): PartNode[] {
  return parts.map((part) => {
    const { id, x, y, width, height } = part;
    return {
      id,
      type: 'part',
      width,
      height,
      measured: { width, height },
      data: { part },
      position: dragged?.id === id ? { x: dragged.x, y: dragged.y } : { x, y },
      zIndex: dragged?.id === id ? 10 : 0,
      draggable: part.kind === 'step',
      handles: [
        { type: 'target', position: Position.Top, x: width / 2, y: 0, width: 1, height: 1 },
        { type: 'source', position: Position.Bottom, x: width / 2, y: height, width: 1, height: 1 },
      ],
      style: { pointerEvents: 'all' },
      domAttributes: { 'aria-roledescription': undefined },
    };
  });
}

/** The picture of the steps: what is done on it is done to them. */
export default function Canvas({ steps, onChange, error, trigger, numbers, label }: Props) {
  const [kind, setKind] = useState<(typeof STEP_TYPES)[number]>('SEND_EMAIL');
  const [chosen, setChosen] = useState<{ id: string; place: string; round: number } | null>(null);
  const [dragged, setDragged] = useState<Dragged | null>(null);
  const [said, setSaid] = useState('');
  const focus = useRef<string | null>(null);
  const flow = useRef<ReactFlowInstance<PartNode> | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const keys = useId();
  const scheme = useComputedColorScheme('light');
  const picture = useMemo(() => pictureOf(steps), [steps]);
  const nodes = useMemo(() => nodesOf(picture, dragged), [picture, dragged]);
  const edges = useMemo(
    () => picture.lines.map(({ id, from, to }): Edge => ({ ...EDGES, id, source: from, target: to })),
    [picture],
  );
  // By its place where it was saved and read anew.
  const open =
    chosen && (standingOf(steps, chosen.id) ?? [...everyStep(steps)].find(({ place }) => place === chosen.place));
  // Kept up with where it goes and what it is known by, so that its place is not another's when it is read anew.
  if (chosen && !open) setChosen(null);
  else if (chosen && open && (open.place !== chosen.place || identityOf(open.step) !== chosen.id))
    setChosen({ ...chosen, id: identityOf(open.step), place: open.place });

  const where = ({ list, index, count }: Standing, all = steps): string =>
    t.canvas.where(index + 1, count, armOf(all, list));
  const tell = (now: Standing | undefined, all: Step[]) =>
    now && setSaid(t.canvas.moved(stepName(now.step), where(now, all)));
  const choose = (standing: Standing) => {
    setChosen({ id: identityOf(standing.step), place: standing.place, round: (chosen?.round ?? 0) + 1 });
    setSaid(t.canvas.opened(stepName(standing.step)));
  };
  const take = (standing: Standing, target: Target | null) => {
    if (!target || !canGo(standing.place, target)) {
      // Nothing is drawn anew that would take it.
      focus.current = null;
      return setSaid(t.canvas.stays);
    }
    const next = relocated(steps, standing, target);
    onChange(next);
    tell(standingOf(next, identityOf(standing.step)), next);
  };
  const put = (target: Target) => {
    const step = freshStep(kind);
    const next = inserted(steps, target, step);
    const now = standingOf(next, identityOf(step));
    onChange(next);
    if (now) choose(now);
  };
  const remove = (standing: Standing) => {
    if (open && (open.place === standing.place || open.place.startsWith(`${standing.place}.`))) setChosen(null);
    focus.current = `spot:${standing.place}`;
    onChange(without(steps, standing.place));
    setSaid(t.canvas.removed(stepName(standing.step)));
  };
  const move = (standing: Standing, moves: readonly Move[]) =>
    take(standing, moves.map((each) => targetOf(steps, standing, each)).find(Boolean) ?? null);
  const press = (event: KeyboardEvent, standing: Standing) => {
    const moves = event.altKey ? KEYS[event.key] : undefined;
    if (moves) {
      event.preventDefault();
      focus.current = identityOf(standing.step);
      move(standing, moves);
    } else if (event.key === 'Delete') {
      event.preventDefault();
      remove(standing);
    }
  };
  const drag = (changes: Array<NodeChange<PartNode>>) => {
    for (const change of changes) {
      if (change.type !== 'position' || !change.dragging || !change.position) continue;
      const part = picture.parts.find(({ id }) => id === change.id);
      if (part?.kind !== 'step') continue;
      const { x, y } = change.position;
      setDragged({
        id: part.id,
        x,
        y,
        spot: spotAt(picture, part.standing.place, x + part.width / 2, y + part.height / 2)?.id ?? null,
      });
    }
  };
  const drop = (_: unknown, { id, position: { x, y } }: PartNode) => {
    setDragged(null);
    const part = picture.parts.find((each) => each.id === id);
    if (part?.kind === 'step')
      take(
        part.standing,
        spotAt(picture, part.standing.place, x + part.width / 2, y + part.height / 2)?.target ?? null,
      );
  };
  /** Whatever has the focus is seen. */
  const reveal = (part: Part) => {
    const [instance, element] = [flow.current, frame.current];
    if (!instance || !element) return;
    const { x, y, zoom } = instance.getViewport();
    const [left, top] = [part.x * zoom + x, part.y * zoom + y];
    const isSeen =
      left >= 0 &&
      top >= 0 &&
      left + part.width * zoom <= element.clientWidth &&
      top + part.height * zoom <= element.clientHeight;
    if (!isSeen) void instance.setCenter(part.x + part.width / 2, part.y + part.height / 2, { zoom });
  };
  const begin = (instance: ReactFlowInstance<PartNode>) => {
    flow.current = instance;
    const { clientWidth, clientHeight } = frame.current ?? { clientWidth: picture.width, clientHeight: picture.height };
    void instance.setViewport(fitted(picture, clientWidth, clientHeight));
  };
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    let before = element.clientWidth;
    const resized = new ResizeObserver(() => {
      // The axis stays in the middle when the form opens beside it.
      const { x, y, zoom } = flow.current?.getViewport() ?? { x: 0, y: 0, zoom: 1 };
      void flow.current?.setViewport({ x: x + (element.clientWidth - before) / 2, y, zoom });
      before = element.clientWidth;
    });
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  const state: CanvasState = {
    trigger,
    numbers,
    focus,
    keys,
    where,
    chosen: open ? identityOf(open.step) : null,
    near: dragged?.spot ?? null,
    kind: t.steps.types[kind] ?? kind,
    between: ({ list, index }) => t.canvas.between(index, armOf(steps, list)),
    problems: (place) => problemsOf(error, place).length,
    onChoose: choose,
    onKey: press,
    onPut: put,
    onFocus: reveal,
  };
  const last: Target = open ? { list: open.list, index: open.index + 1 } : { list: 'steps', index: steps.length };
  return (
    <Stack gap="xs" role="group" aria-label={label}>
      <Group align="flex-end" gap="xs">
        <NativeSelect
          size="xs"
          label={t.canvas.kind}
          value={kind}
          onChange={(event) => setKind(STEP_TYPES.find((each) => each === event.currentTarget.value) ?? 'SEND_EMAIL')}
          data={STEP_TYPES.map((each) => ({ value: each, label: t.steps.types[each] ?? each }))}
        />
        <Button size="xs" variant="default" onClick={() => put(last)}>
          {t.steps.add}
        </Button>
      </Group>
      <Text size="sm" c="dimmed" id={keys}>
        {t.canvas.keys}
      </Text>
      <div className="canvas" data-open={open ? true : undefined}>
        <div ref={frame} className="canvas-frame">
          <CanvasContext value={state}>
            <ReactFlow<PartNode>
              nodes={nodes}
              edges={edges}
              nodeTypes={NODE_TYPES}
              edgeTypes={EDGE_TYPES}
              onInit={begin}
              onNodesChange={drag}
              onNodeDragStop={drop}
              nodesConnectable={false}
              nodesFocusable={false}
              elementsSelectable={false}
              disableKeyboardA11y
              nodeDragThreshold={4}
              nodeClickDistance={4}
              zoomOnScroll={false}
              zoomOnDoubleClick={false}
              preventScrolling={false}
              deleteKeyCode={null}
              selectionKeyCode={null}
              multiSelectionKeyCode={null}
              panActivationKeyCode={null}
              zoomActivationKeyCode={null}
              minZoom={FARTHEST}
              maxZoom={1.5}
              colorMode={scheme}
              aria-label={label}
              ariaLabelConfig={t.canvas.controls}
            >
              <Controls showInteractive={false} />
            </ReactFlow>
          </CanvasContext>
        </div>
        {open && (
          <StepPanel
            key={chosen?.round}
            steps={steps}
            standing={open}
            where={where(open)}
            error={error}
            onChange={(step) => onChange(withStep(steps, open.place, () => step))}
            onMove={(each) => move(open, [each])}
            onRemove={() => remove(open)}
            onClose={() => {
              focus.current = identityOf(open.step);
              setChosen(null);
            }}
          />
        )}
      </div>
      <VisuallyHidden role="status">{said}</VisuallyHidden>
    </Stack>
  );
}
