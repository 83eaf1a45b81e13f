import '@xyflow/react/dist/style.css';
import './canvas.css';
import { Button, Group, NativeSelect, Stack, Text, VisuallyHidden, useComputedColorScheme } from '@mantine/core';
import { Controls, type Edge, type NodeChange, Position, ReactFlow, type ReactFlowInstance } from '@xyflow/react';
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react';
import { identityOf } from '../../app/identity';
import { t } from '../../text';
import {
  type Move,
  type LocatedStep,
  type Target,
  canMoveTo,
  everyStep,
  insertStep,
  moveStep,
  locateStep,
  targetOf,
  removeStep,
  updateStep,
} from './arrangement';
import { CanvasContext, type CanvasState, EDGE_TYPES, NODE_TYPES, type PartNode, describeBranch } from './canvas-parts';
import { MIN_ZOOM, type Part, type Layout, fitViewport, layoutOf, spotAt } from './layout';
import { KEYS } from './moves';
import { STEP_TYPES, type Step, newStep } from './step';
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
  /** ID of the spot where the step would be dropped. */
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

function nodesOf({ parts }: Layout, dragged: Dragged | null): PartNode[] {
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

/** Diagram of the steps. Every action on it changes the list of steps. */
export default function Canvas({ steps, onChange, error, trigger, numbers, label }: Props) {
  const [type, setType] = useState<(typeof STEP_TYPES)[number]>('SEND_EMAIL');
  const [selected, setSelected] = useState<{ id: string; path: string; round: number } | null>(null);
  const [dragged, setDragged] = useState<Dragged | null>(null);
  const [announcement, announce] = useState('');
  const focus = useRef<string | null>(null);
  const flow = useRef<ReactFlowInstance<PartNode> | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const keysId = useId();
  const scheme = useComputedColorScheme('light');
  const layout = useMemo(() => layoutOf(steps), [steps]);
  const nodes = useMemo(() => nodesOf(layout, dragged), [layout, dragged]);
  const edges = useMemo(
    () => layout.lines.map(({ id, from, to }): Edge => ({ ...EDGES, id, source: from, target: to })),
    [layout],
  );
  // By path if the step was saved and reloaded, which changes its identity.
  const open =
    selected && (locateStep(steps, selected.id) ?? [...everyStep(steps)].find(({ path }) => path === selected.path));
  // Follow moves and identity changes, so that after a reload the path does not select another step.
  if (selected && !open) setSelected(null);
  else if (selected && open && (open.path !== selected.path || identityOf(open.step) !== selected.id))
    setSelected({ ...selected, id: identityOf(open.step), path: open.path });

  const describeLocation = ({ list, index, count }: LocatedStep, all = steps): string =>
    t.canvas.location(index + 1, count, describeBranch(all, list));
  const announceMove = (now: LocatedStep | undefined, all: Step[]) =>
    now && announce(t.canvas.moved(stepName(now.step), describeLocation(now, all)));
  const select = (located: LocatedStep) => {
    setSelected({ id: identityOf(located.step), path: located.path, round: (selected?.round ?? 0) + 1 });
    announce(t.canvas.opened(stepName(located.step)));
  };
  const moveTo = (located: LocatedStep, target: Target | null) => {
    if (!target || !canMoveTo(located.path, target)) {
      // Nothing is rendered that would take the focus.
      focus.current = null;
      return announce(t.canvas.notMoved);
    }
    const next = moveStep(steps, located, target);
    onChange(next);
    announceMove(locateStep(next, identityOf(located.step)), next);
  };
  const insert = (target: Target) => {
    const step = newStep(type);
    const next = insertStep(steps, target, step);
    const now = locateStep(next, identityOf(step));
    onChange(next);
    if (now) select(now);
  };
  const remove = (located: LocatedStep) => {
    if (open && (open.path === located.path || open.path.startsWith(`${located.path}.`))) setSelected(null);
    focus.current = `spot:${located.path}`;
    onChange(removeStep(steps, located.path));
    announce(t.canvas.removed(stepName(located.step)));
  };
  const move = (located: LocatedStep, moves: readonly Move[]) =>
    moveTo(located, moves.map((each) => targetOf(steps, located, each)).find(Boolean) ?? null);
  const press = (event: KeyboardEvent, located: LocatedStep) => {
    const moves = event.altKey ? KEYS[event.key] : undefined;
    if (moves) {
      event.preventDefault();
      focus.current = identityOf(located.step);
      move(located, moves);
    } else if (event.key === 'Delete') {
      event.preventDefault();
      remove(located);
    }
  };
  const drag = (changes: Array<NodeChange<PartNode>>) => {
    for (const change of changes) {
      if (change.type !== 'position' || !change.dragging || !change.position) continue;
      const part = layout.parts.find(({ id }) => id === change.id);
      if (part?.kind !== 'step') continue;
      const { x, y } = change.position;
      setDragged({
        id: part.id,
        x,
        y,
        spot: spotAt(layout, part.located.path, x + part.width / 2, y + part.height / 2)?.id ?? null,
      });
    }
  };
  const drop = (_: unknown, { id, position: { x, y } }: PartNode) => {
    setDragged(null);
    const part = layout.parts.find((each) => each.id === id);
    if (part?.kind === 'step')
      moveTo(part.located, spotAt(layout, part.located.path, x + part.width / 2, y + part.height / 2)?.target ?? null);
  };
  /** Scrolls a focused part into view. */
  const reveal = (part: Part) => {
    const [instance, element] = [flow.current, frame.current];
    if (!instance || !element) return;
    const { x, y, zoom } = instance.getViewport();
    const [left, top] = [part.x * zoom + x, part.y * zoom + y];
    const isVisible =
      left >= 0 &&
      top >= 0 &&
      left + part.width * zoom <= element.clientWidth &&
      top + part.height * zoom <= element.clientHeight;
    if (!isVisible) void instance.setCenter(part.x + part.width / 2, part.y + part.height / 2, { zoom });
  };
  const initialize = (instance: ReactFlowInstance<PartNode>) => {
    flow.current = instance;
    const { clientWidth, clientHeight } = frame.current ?? { clientWidth: layout.width, clientHeight: layout.height };
    void instance.setViewport(fitViewport(layout, clientWidth, clientHeight));
  };
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    let before = element.clientWidth;
    const resized = new ResizeObserver(() => {
      // Keep the axis centred when the side panel opens.
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
    keysId,
    describeLocation,
    selectedId: open ? identityOf(open.step) : null,
    dropTargetId: dragged?.spot ?? null,
    newStepName: t.steps.types[type] ?? type,
    describeTarget: ({ list, index }) => t.canvas.position(index, describeBranch(steps, list)),
    countProblems: (path) => problemsOf(error, path).length,
    onSelect: select,
    onKey: press,
    onInsert: insert,
    onFocus: reveal,
  };
  const addTarget: Target = open ? { list: open.list, index: open.index + 1 } : { list: 'steps', index: steps.length };
  return (
    <Stack gap="xs" role="group" aria-label={label}>
      <Group align="flex-end" gap="xs">
        <NativeSelect
          size="xs"
          label={t.canvas.stepType}
          value={type}
          onChange={(event) => setType(STEP_TYPES.find((each) => each === event.currentTarget.value) ?? 'SEND_EMAIL')}
          data={STEP_TYPES.map((each) => ({ value: each, label: t.steps.types[each] ?? each }))}
        />
        <Button size="xs" variant="default" onClick={() => insert(addTarget)}>
          {t.steps.add}
        </Button>
      </Group>
      <Text size="sm" c="dimmed" id={keysId}>
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
              onInit={initialize}
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
              minZoom={MIN_ZOOM}
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
            key={selected?.round}
            steps={steps}
            located={open}
            location={describeLocation(open)}
            error={error}
            onChange={(step) => onChange(updateStep(steps, open.path, () => step))}
            onMove={(each) => move(open, [each])}
            onRemove={() => remove(open)}
            onClose={() => {
              focus.current = identityOf(open.step);
              setSelected(null);
            }}
          />
        )}
      </div>
      <VisuallyHidden role="status">{announcement}</VisuallyHidden>
    </Stack>
  );
}
