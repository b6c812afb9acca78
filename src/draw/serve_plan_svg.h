// What serving takes, as a picture: a row for each stage of the pipeline, a column for each rank of
// tp, and in each place that rank's memory by category against what it has, with the layers and the
// key heads whose pages it holds.
#pragma once

#include <string>

#include "serve/plan/serve_report.h"

namespace tessera {

std::string serve_plan_svg(const serve::ServeReport& report);

}  // namespace tessera
