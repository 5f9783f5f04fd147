// MultiCropOption: --multi-crop, several views of each picture from one decode, each with its size
// and transforms (DINO's 2 x 224 and 8 x 96):
//
//   --multi-crop 'views(2, 224, [rrc(area=0.4..1), hflip]), views(8, 96, [rrc(area=0.05..0.4)])'
//
// Views are numbered from 0 on in the order of the calls. Each draws its random transforms by its
// number: view 0 the choices that a single picture of the sample has.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "decode/transforms.h"
#include "io/component/component_text.h"
#include "pipeline/fields.h"
#include "tools/image_options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace millrace::tools {

/// Views of one size.
struct ViewSet {
  int count = 0;
  decode::Extent size = {};
};

struct Views {
  int count = 0;
  decode::Extent size = {};
  /// As --augment, whose list a call without one takes.
  std::vector<decode::Transform> augment = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<ViewSet> make() const;
};

class MultiCropOption {
 public:
  static const Table& table();

  /// Declares --multi-crop. Lifetime: until `app` ends.
  CLI::Option* declare(CLI::App& app);
  bool is_given() const { return !text_.empty(); }
  /// The options of each view; what the calls do not say is as `usual` has it. Throws:
  /// InvalidArgument, which names the option, for calls and transforms that cannot be.
  std::vector<ImageOptions> views(const ImageOptions& usual) const;
  /// view0, view1, ...: the fields of a batch. Throws: as views().
  std::vector<pipeline::ImageField> fields(const ImageOptions& usual, decode::DType dtype) const;

 private:
  std::string text_ = {};
};

}  // namespace millrace::tools
