/* version.c - the version as text. */
#include <tandem/base.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *tdm_version(void)
{
    return TEXT(TDM_VERSION_MAJOR) "." TEXT(TDM_VERSION_MINOR) "." TEXT(TDM_VERSION_PATCH);
}
