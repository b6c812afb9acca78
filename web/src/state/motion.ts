// Readers who asked for less motion get steps that jump.
export const prefersLessMotion = () => matchMedia?.('(prefers-reduced-motion: reduce)').matches ?? false;
