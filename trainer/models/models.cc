#include "trainer/models/models.h"

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "trainer/models/alexnet.h"
#include "trainer/models/lenet.h"
#include "trainer/models/resnet.h"
#include "trainer/models/unet.h"

namespace millrace::trainer {

const TableOf<Architecture>& standard_models() {
  static const TableOf<Architecture> table = TableOf<Architecture>("model")
                                                 .add<models::AlexNet>()
                                                 .add<models::LeNet>()
                                                 .add<models::ResNet18>()
                                                 .add<models::ResNet34>()
                                                 .add<models::ResNet50>()
                                                 .add<models::UNet>();
  return table;
}

nn::Graph build_model(std::string_view call, const ModelOptions& options) {
  const auto models = parse(call, standard_models());
  require(models.size() == 1, "give one model");
  return models.front().make()->build(options);
}

}  // namespace millrace::trainer
