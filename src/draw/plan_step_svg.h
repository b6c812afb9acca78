// The part of a plan's picture that a cluster adds: memory of every place in the pipeline against
// the limit, what crosses the links, and where the time of a step goes.
#pragma once

#include "draw/svg.h"
#include "plan/plan.h"

namespace tessera {

// Where it begins, and how much of the page it may take.
struct PageStrip {
  double left = 0, top = 0, width = 0;
};

// Returns where it ends. The plan has the price of a step.
double draw_planned_step(SvgPage& page, const Plan& plan, const PageStrip& strip);

}  // namespace tessera
