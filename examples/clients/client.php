<?php
// A Duebox client in PHP without dependencies.
declare(strict_types=1);

/** Posts JSON; returns the status and the decoded response, also of an error. */
function post(string $path, ?array $value = null): array
{
    $duebox = getenv('DUEBOX') ?: 'http://127.0.0.1:7280';
    $token = getenv('DUEBOX_TOKEN');
    $headers = ['content-type: application/json'];
    if ($token) {
        $headers[] = "authorization: Bearer $token";
    }
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => $headers,
        'content' => $value === null ? '' : json_encode($value),
        'ignore_errors' => true,    // The body of an error says what to do about it.
        'timeout' => 70,
    ]]);
    $body = file_get_contents($duebox . $path, false, $context);
    $status = (int) explode(' ', $http_response_header[0])[1];
    return [$status, json_decode($body, true)];
}

// Push, pull and settle.
[$status, $pushed] = post('/v1/topics/mail/jobs', ['id' => 'php', 'payload' => ['to' => 'ann']]);
echo "$status {$pushed['result']}\n";
[, $pulled] = post('/v1/topics/mail/leases?wait=10s');
$job = $pulled['jobs'][0];
echo $job['id'], ' ', $job['payload'], "\n";
[$status] = post("/v1/topics/mail/jobs/{$job['id']}/ack", ['token' => $job['token']]);
echo "$status\n";
[$status, $problem] = post("/v1/topics/mail/jobs/{$job['id']}/ack", ['token' => $job['token']]);
echo "$status {$problem['type']}\n";

// The same with commands.
[, $added] = post('/', ['command' => 'add', 'topic' => 'order', 'id' => 'php', 'TTR' => 30, 'body' => ['order' => 42]]);
echo json_encode($added['success']), "\n";
[, $popped] = post('/', ['command' => 'pop', 'topic' => 'order', 'wait' => 10]);
echo $popped['id'], ' ', json_encode($popped['value']), "\n";
[, $finished] = post('/', ['command' => 'finish', 'id' => $popped['id'], 'token' => $popped['token']]);
echo json_encode($finished['success']), "\n";
[, $deleted] = post('/', ['command' => 'delete', 'id' => $popped['id']]);
echo json_encode($deleted['success']), " {$deleted['error']}\n";
