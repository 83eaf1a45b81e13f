import 'uplot/dist/uPlot.min.css';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import UPlot from 'uplot';
import { t } from '../text';

interface Props {
  /** Description for screen readers. */
  label: string;
  /** Days such as 2026-01-31, ascending, and the value of each. */
  days: string[];
  values: number[];
  name: string;
}

const HEIGHT = 200;

/** Line chart with one value per day. */
export default function Chart({ label, days, values, name }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme('light');
  useEffect(() => {
    const element = container.current;
    if (!element) return;
    const [ink, grid] = scheme === 'dark' ? ['#c9c9c9', '#3b3b3b'] : ['#495057', '#dee2e6'];
    const line = scheme === 'dark' ? '#ff9c77' : '#a93a0d';
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const plot = new UPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1_000), 'UTC'),
        scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
        axes: [
          axis,
          {
            ...axis,
            size: 64,
            incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7, 1e8],
          },
        ],
        series: [
          { label: t.overview.day, value: '{YYYY}-{MM}-{DD}' },
          { label: name, stroke: line, width: 2, fill: `${line}22`, points: { show: days.length < 15 } },
        ],
      },
      [days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1_000), values],
      element,
    );
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [days, values, name, scheme]);
  return <div ref={container} role="img" aria-label={label} style={{ minHeight: HEIGHT, overflow: 'hidden' }} />;
}
