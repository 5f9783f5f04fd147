#include "tools/create/synthetic_source.h"

#include "io/base/error.h"
#include "tools/create/shape_classes.h"

namespace millrace::tools {

std::vector<std::string> synthetic_kinds() {
  return {"classes", "multilabel", "scenes", "segments"};
}

bool has_own_classes(std::string_view kind) { return kind == "scenes" || kind == "segments"; }

std::unique_ptr<SampleSource> make_synthetic_source(const SyntheticOptions& options) {
  if (options.kind == "scenes") return make_scenes_source(options);
  if (options.kind == "segments") return make_segments_source(options);
  check_shape_classes(options.classes);
  if (options.kind == "classes") return make_classes_source(options);
  if (options.kind == "multilabel") return make_multilabel_source(options);
  throw Error(ErrorCode::kInvalidArgument, "no synthetic data called " + options.kind);
}

}  // namespace millrace::tools
