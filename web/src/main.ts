import { mount } from 'svelte';
import App from './App.svelte';
import { respond } from './core/core';
import './styles/tokens.css';
import './styles/base.css';

// For the browser's console, and for tests that compare it with the program: the core itself.
Object.assign(globalThis, { tessera: { respond } });

mount(App, { target: document.getElementById('app')! });
