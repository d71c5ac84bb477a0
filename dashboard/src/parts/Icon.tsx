/** Icons, drawn by one line each. */
const PATHS = {
  overview: 'M3 12l5-5 4 4 5-6M3 17h14',
  requests: 'M4 5h12M4 10h12M4 15h8',
  conversations: 'M4 4h12v9H9l-4 3v-3H4z',
  experiments: 'M8 3v5l-4 8h12l-4-8V3M7 3h6',
  functions: 'M13 4c-3-1-3 2-3.5 5L8 16c-.5 1-2 1-2.5.5M6 9h7',
  playground: 'M6 4l10 6-10 6z',
  teams: 'M12 8a3 3 0 106 0 3 3 0 10-6 0M12 9l-8 7M6 14l2 2',
  limits: 'M4 15a7 7 0 1112 0M10 12l3-4',
  cost: 'M10 3v14M14 6c-2-2-8-2-8 1s8 2 8 5-6 3-8 1',
  fleet: 'M3 5h14v4H3zM3 11h14v4H3zM6 7h0M6 13h0',
  models: 'M10 3l7 4v6l-7 4-7-4V7zM3 7l7 4 7-4M10 11v6',
  audit: 'M10 3l6 2v5c0 4-3 6-6 7-3-1-6-3-6-7V5z',
  feedback: 'M6 9v8H3V9zM6 9l4-6c2 0 2 2 1 5h5c1 0 2 1 1.500 3l-1.500 5c0 1-1 1-2 1H6',
  datasets: 'M4 5c0-2 12-2 12 0s-12 2-12 0M4 5v10c0 2 12 2 12 0V5M4 10c0 2 12 2 12 0',
  replays: 'M4 10a6 6 0 106-6H6M8 1L5 4l3 3',
  settings: 'M4 6h6M14 6h2M10 4v4M4 14h2M10 14h6M6 12v4',
  me: 'M10 10a3 3 0 100-6 3 3 0 000 6M4 17c0-3 3-5 6-5s6 2 6 5',
  search: 'M9 3a6 6 0 100 12A6 6 0 009 3zM13.5 13.5L17 17',
  menu: 'M3 6h14M3 10h14M3 14h14',
  theme: 'M15 12.5A6.5 6.5 0 017.5 5 6 6 0 1015 12.5z',
  close: 'M5 5l10 10M15 5L5 15',
  up: 'M10 16V4M5 9l5-5 5 5',
  down: 'M10 4v12M5 11l5 5 5-5',
  book: 'M4 4h5a2 2 0 012 2v10a2 2 0 00-2-1H4zM16 4h-3a2 2 0 00-2 2v10a2 2 0 012-1h3z',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return <svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d={PATHS[name]} /></svg>;
}

export function Mark() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M3 22V11a9 9 0 0118 0v11h-4V11a5 5 0 00-10 0v11z" />
      <circle cx="12" cy="17" r="2" />
    </svg>
  );
}
