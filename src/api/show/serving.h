// `show serving`: prompts and answers on their way through a pipeline.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic serving_topic();

}  // namespace tessera
