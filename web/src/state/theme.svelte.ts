// Light or dark: the system's, unless the reader chose.
class Theme {
  private chosen = $state<string | null>(read());
  private system = $state(matchMedia?.('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');

  constructor() {
    matchMedia?.('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
      this.system = event.matches ? 'dark' : 'light';
    });
  }
  get now() {
    return this.chosen ?? this.system;
  }
  toggle() {
    this.chosen = this.now === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem('theme', this.chosen);
    } catch {
      // A page from a file may have no storage: the choice holds until it is closed.
    }
  }
}
function read(): string | null {
  try {
    return localStorage.getItem('theme');
  } catch {
    return null;
  }
}
export const theme = new Theme();
