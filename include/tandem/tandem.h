/* tandem.h - all of Tandem's public interface. */
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <tandem/base.h>
#include <tandem/collective.h>
#include <tandem/compress.h>
#include <tandem/config.h>
#include <tandem/doctor.h>
#include <tandem/dtype.h>
#include <tandem/group.h>
#include <tandem/launch.h>
#include <tandem/message.h>
#include <tandem/model.h>
#include <tandem/op.h>
#include <tandem/own_op.h>
#include <tandem/progress.h>
#include <tandem/recorder.h>
#include <tandem/reducer.h>
#include <tandem/status.h>
#include <tandem/store.h>
#include <tandem/train.h>
#include <tandem/tuning.h>

#endif
