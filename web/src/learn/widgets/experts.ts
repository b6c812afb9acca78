// Where a router sends tokens, as the core plays it.
export interface Counted {
  formula: string;
  numbers: string;
  value: number;
}
export interface Routing {
  tokens: number;
  experts: number;
  top_k: number;
  ranks: number;
  capacity: number;
  capacity_formula: Counted;
  choices: number[][]; // of a token
  weights: number[][];
  kept: boolean[][];
  loads: number[]; // of an expert
  dropped: number[];
  dropped_share: number;
  sent: number[][]; // rows from a rank to a rank
  received: number[];
  bytes_formula: Counted;
  imbalance: number;
  expert_rank: number[];
  token_rank: number[];
  note: string;
}

export interface Visit {
  token: number;
  expert: number;
  weight: number;
  kept: boolean;
}
const indices = (count: number) => Array.from({ length: count }, (_, i) => i);

export const tokensOf = (of: Routing, rank: number) =>
  indices(of.tokens).filter((token) => of.token_rank[token] === rank);
export const expertsOf = (of: Routing, rank: number) =>
  indices(of.experts).filter((expert) => of.expert_rank[expert] === rank);
export const visitsOf = (of: Routing, token: number): Visit[] =>
  of.choices[token]!.map((expert, i) => ({
    token,
    expert,
    weight: of.weights[token]![i]!,
    kept: of.kept[token]![i]!,
  }));
// Tokens that arrive at an expert, in the order of the tokens.
export const arrivalsOf = (of: Routing, expert: number): Visit[] =>
  indices(of.tokens)
    .flatMap((token) => visitsOf(of, token))
    .filter((visit) => visit.expert === expert);
