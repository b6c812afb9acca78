// Debian's Chromium without a screen, and without anything that it does by itself on the network.
import { chromium } from 'playwright-core';

export const kChromium = process.env.CHROMIUM ?? '/usr/bin/chromium';

export function openBrowser() {
  return chromium.launch({
    executablePath: kChromium,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}
