// The answer to "how many devices?" as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "search/deadline.h"

namespace tessera {

std::string deadline_text(const DeadlineAnswer& answer, const Constant& usd_per_device_hour);
nlohmann::ordered_json deadline_json(const DeadlineAnswer& answer);

}  // namespace tessera
