/* The service manager: messages of sd_notify(3), and keys as a credential of systemd. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tools/serve/serve.h"

void serve_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') /* a name without a file */
        address.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        console_error("serve: NOTIFY_SOCKET: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}

const char *serve_notify_credential(char path[SERVE_CREDENTIAL_PATH])
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    if (!folder || !folder[0])
        return NULL;
    const int len = snprintf(path, SERVE_CREDENTIAL_PATH, "%s/dopplergl.api-keys", folder);
    return len < SERVE_CREDENTIAL_PATH && dgl_path_exists(path) ? path : NULL;
}
