// Every page of the studio, as it stands in an address after the #.
export const kLessons = [
  'one-device',
  'collectives',
  'data-parallel',
  'zero',
  'tensor',
  'pipelines',
  'context',
  'experts',
  'mesh',
  'memory',
  'precision',
  'failures',
  'serving',
];
export const kPages = [
  '/plan',
  ...['placements', 'map', 'schedule', 'collectives', 'ranks'].map((tab) => `/inside/${tab}`),
  '/watch',
  ...kLessons.map((lesson) => `/learn/${lesson}`),
];
