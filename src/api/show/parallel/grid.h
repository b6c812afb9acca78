// The topic "grid": who is who among the ranks of a mesh, whom each talks to and over which links.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic mesh_grid_topic();

}  // namespace tessera
