/* port.c - MASTER_PORT held by a socket that is bound but does not listen.
 *
 * The kernel gives a bound port to nobody who asks for a free one, neither for bind(0) nor for connect, so no other job gets it
 * between our choice and rank 0's listen. Rank 0 can still bind and listen, since both sockets have SO_REUSEADDR and the
 * holder does not listen: PyTorch's TCPStore and libtandem's both set it (a test shows it for ours). */
#include "launch/port.h"

#include "store/port_owner.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

tdm_status tdmi_port_hold(int port, int *fd_out, int *port_out)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, length) == 0 && getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
        *fd_out = fd;
        *port_out = ntohs(address.sin_port);
        return TDM_OK;
    }
    int error = errno;
    close(fd);
    if (error != EADDRINUSE)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot take port %d", port);
    char owner[128];
    tdmi_port_owner(port, owner, sizeof owner);
    return tdmi_fail(TDM_ERR_ADDRESS_IN_USE, "port %d is taken%s; leave --port out for a free one", port, owner);
}
