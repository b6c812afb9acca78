// The lessons, in order. A page is a component of its own in lessons/, and says which sections it has.
import type { Component } from 'svelte';
import OneDevice, { sections as ofOneDevice } from './lessons/OneDevice.svelte';
import Collectives, { sections as ofCollectives } from './lessons/Collectives.svelte';
import DataParallel, { sections as ofDataParallel } from './lessons/DataParallel.svelte';
import Zero, { sections as ofZero } from './lessons/Zero.svelte';
import Tensor, { sections as ofTensor } from './lessons/Tensor.svelte';
import Pipelines, { sections as ofPipelines } from './lessons/Pipelines.svelte';
import Context, { sections as ofContext } from './lessons/Context.svelte';
import Experts, { sections as ofExperts } from './lessons/Experts.svelte';
import Mesh, { sections as ofMesh } from './lessons/Mesh.svelte';
import Memory, { sections as ofMemory } from './lessons/Memory.svelte';
import Precision, { sections as ofPrecision } from './lessons/Precision.svelte';
import Failures, { sections as ofFailures } from './lessons/Failures.svelte';
import Serving, { sections as ofServing } from './lessons/Serving.svelte';

export interface Section {
  id: string; // of its heading
  title: string; // in the list
}
export interface Lesson {
  id: string; // in the address
  title: string; // in the list
  sections: Section[];
  page: Component;
}

export const kLessons: Lesson[] = [
  { id: 'one-device', title: 'Why one device is not enough', sections: ofOneDevice, page: OneDevice },
  { id: 'collectives', title: 'Collectives', sections: ofCollectives, page: Collectives },
  { id: 'data-parallel', title: 'Data parallel', sections: ofDataParallel, page: DataParallel },
  { id: 'zero', title: 'ZeRO and FSDP', sections: ofZero, page: Zero },
  { id: 'tensor', title: 'Tensor and sequence parallel', sections: ofTensor, page: Tensor },
  { id: 'pipelines', title: 'Pipelines', sections: ofPipelines, page: Pipelines },
  { id: 'context', title: 'Context', sections: ofContext, page: Context },
  { id: 'experts', title: 'Experts', sections: ofExperts, page: Experts },
  { id: 'mesh', title: 'The mesh and the machine', sections: ofMesh, page: Mesh },
  { id: 'memory', title: 'Memory', sections: ofMemory, page: Memory },
  {
    id: 'precision',
    title: 'Precision, accumulation, recomputation',
    sections: ofPrecision,
    page: Precision,
  },
  { id: 'failures', title: 'Failures', sections: ofFailures, page: Failures },
  { id: 'serving', title: 'Serving', sections: ofServing, page: Serving },
];
