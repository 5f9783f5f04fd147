#include "trainer/models/models.h"

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "trainer/models/airbench94.h"
#include "trainer/models/alexnet.h"
#include "trainer/models/convnext.h"
#include "trainer/models/efficientnet.h"
#include "trainer/models/lenet.h"
#include "trainer/models/mobilenet_v3.h"
#include "trainer/models/resnet.h"
#include "trainer/models/unet.h"
#include "trainer/models/vit.h"

namespace millrace::trainer {

const TableOf<Architecture>& standard_models() {
  static const TableOf<Architecture> table = TableOf<Architecture>("model")
                                                 .add<models::Airbench94>()
                                                 .add<models::AlexNet>()
                                                 .add<models::ConvNeXtTiny>()
                                                 .add<models::EfficientNetB0>()
                                                 .add<models::LeNet>()
                                                 .add<models::MobileNetV3Large>()
                                                 .add<models::MobileNetV3Small>()
                                                 .add<models::ResNet18>()
                                                 .add<models::ResNet34>()
                                                 .add<models::ResNet50>()
                                                 .add<models::ResNeXt50>()
                                                 .add<models::WideResNet50>()
                                                 .add<models::UNet>()
                                                 .add<models::VitB16>()
                                                 .add<models::VitS16>();
  return table;
}

nn::Graph build_model(std::string_view call, const ModelOptions& options) {
  const auto models = parse(call, standard_models());
  require(models.size() == 1, "give one model");
  return models.front().make()->build(options);
}

}  // namespace millrace::trainer
