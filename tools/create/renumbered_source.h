// A source whose classes have the numbers of a label map, another set's, in place of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/create/sample_source.h"

namespace millrace::tools {

/// The label (cls) of a class becomes its place in `names`, and classes() are `names`. `names_from`
/// says in errors where they are from. Throws: InvalidArgument for samples without named classes,
/// or with one that `names` lacks.
std::unique_ptr<SampleSource> renumbered_source(std::unique_ptr<SampleSource> source,
                                                std::vector<std::string> names,
                                                const std::string& names_from);

}  // namespace millrace::tools
