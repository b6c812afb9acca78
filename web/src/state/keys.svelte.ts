// Keys that work everywhere without a modifier (?, /, x) can be switched off: who speaks to the
// computer, or types elsewhere, would press them by accident.
const kName = 'single-keys';

class SingleKeys {
  on = $state(read());

  set(on: boolean) {
    this.on = on;
    try {
      localStorage.setItem(kName, String(on));
    } catch {
      // A page from a file may have no storage: the choice holds until it is closed.
    }
  }
  // Whether this press is one of them, and not part of what somebody types.
  takes(event: KeyboardEvent): boolean {
    const typing = event.target instanceof HTMLElement && event.target.closest('input, select, textarea');
    return this.on && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
  }
}
function read(): boolean {
  try {
    return localStorage.getItem(kName) !== 'false';
  } catch {
    return true;
  }
}
export const singleKeys = new SingleKeys();
